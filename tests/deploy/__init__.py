"""What deploy/ holds: manifests for kustomize, a Helm chart, a systemd unit."""
