"""`python -m webhook` is `gpu-policy`."""

from webhook.commands.main import main

main(prog_name="gpu-policy")
