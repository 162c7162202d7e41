"""Log tailing: finding log files, knowing them again, cutting ranges, making events of lines."""
