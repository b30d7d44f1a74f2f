"""`python -m webhook` is `gpu-policy`."""

from webhook.cli import main

main(prog_name="gpu-policy")
