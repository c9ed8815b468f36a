"""Records the memory of a TTNN program from inside its process; needs the standard library alone."""

FOLDER_VARIABLE = "SSINGHAL_PROFILE"  # where records go; a program without it is not followed
SHADOW_VARIABLE = "SSINGHAL_PROFILE_PROGRAM_BUFFERS"  # if set, calls are repeated without dispatch for their program buffers
FIRST_RELEASE = "0.75.0"  # of ttnn: in graphs of earlier ones, buffers that are freed have no address
