"""The SAPP pipeline balancer's command."""
