"""The policy in force on this device: receive a signed one, turn it into ORT's form, swap it in while
serving."""
