// Decodes the compressed parts of a page, written by ssinghal.render.numbering.packed.

/** Returns a promise of the values of a packed part, called `name` in the browser's record of performance. */
async function unpacked(packed, name) {
  performance.mark(`unpacked ${name}`);
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}
