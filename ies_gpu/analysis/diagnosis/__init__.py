"""What is wrong with a map: dependencies, knots, crossings."""
