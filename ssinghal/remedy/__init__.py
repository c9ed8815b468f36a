"""What would make a failing call fit: changes that keep its values, each tried on a device before it is called a remedy."""
