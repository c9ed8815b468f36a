"""Records the memory of a TTNN program from inside its process; needs the standard library alone."""

FOLDER_VARIABLE = "SSINGHAL_PROFILE"  # where records go; a program without it is not followed
FAILURES_VARIABLE = "SSINGHAL_FAILURES"  # where the calls go that fail, of a program that is not followed
NO_TRACE_VARIABLE = "SSINGHAL_NO_TRACE"  # if set, traces and waiting on events are left out
SHADOW_VARIABLE = "SSINGHAL_PROFILE_PROGRAM_BUFFERS"  # if set, calls are repeated without dispatch for their program buffers
FIRST_RELEASE = "0.75.0"  # of ttnn: in graphs of earlier ones, buffers that are freed have no address
