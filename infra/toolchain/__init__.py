"""What the stack is installed from: pinned versions, checksums, and the installer that puts them into the checkout."""
