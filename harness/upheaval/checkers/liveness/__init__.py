"""The promises about time: leaders found, members joined, clients answered, ends explained."""
