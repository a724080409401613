"""The sections of the help in which the options of a training stand."""

from evenflow.cli.shared.sections import in_section
from evenflow.language import to_translate

of_model = in_section(to_translate("Model, as a configuration or as plain numbers"))
of_devices = in_section(to_translate("Devices"))
of_degrees = in_section(to_translate("How the model is split"))
of_step = in_section(to_translate("The step"))
of_software = in_section(to_translate("What the framework does"))
