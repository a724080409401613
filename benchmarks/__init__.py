"""What evenflow is measured by: plan quality on named cases, and simulator speed. See README.md beside this file."""
