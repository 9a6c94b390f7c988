#!/bin/sh
# A command as a worker: `dibs work` claims an item, runs the command for it, and ends the run as the command ended.
#
#   dibs init
#   dibs add "README.md" --type checksum
#   sh examples/command.sh --once
#   dibs runs
#
# The words {id} and {title} become arguments of the command, never a line for a shell: a title is not ours to run.
# Exit 0 is done, 10 is a draft for approval, 75 is "later", everything else has failed.
exec dibs work --agent checksums --type checksum "$@" -- cksum -- "{title}"
