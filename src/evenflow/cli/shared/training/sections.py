"""The sections of the help in which the options of a training stand."""

from evenflow.language import to_translate

MODEL = to_translate("Model, as a configuration or as plain numbers")
DEVICES = to_translate("Devices")
DEGREES = to_translate("How the model is split")
STEP = to_translate("The step")
SOFTWARE = to_translate("What the framework does")
PLANNED = to_translate("Runs to plan")
