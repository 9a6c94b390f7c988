#!/bin/sh
# A command as a worker: `dibs work` claims an item, runs the command for it, and ends the run as the command ended.
#
#   dibs init
#   dibs add "README.md" --type checksum
#   sh examples/command.sh --once
#   dibs runs
#
# {id} and {title} become arguments of the command. No shell parses them, because anybody may have written a title.
# Exit code 0 is done, 10 a draft for approval, 75 "later"; every other one is a failure.
exec dibs work --agent checksums --type checksum "$@" -- cksum -- "{title}"
