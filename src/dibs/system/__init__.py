"""What dibs asks of the operating system: durable writes, renames, inotify, mounts, forks, trust, stored keys."""
