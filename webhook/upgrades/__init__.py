"""What other drivers on nodes would change for workloads, before anybody installs them."""
