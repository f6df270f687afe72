"""What the operating system gives this process. Standard library only: the command line asks before it loads more."""
