"""Options that the tests of several commands share."""

FIT = ["-d", "2", "-s", "2", "--bandwidth", "0.6"]
