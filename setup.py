"""What pyproject.toml can't say: the calibrations lie in `assets/`, and in the wheel with the code."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["debubble", "debubble.*"]), "debubble.calibration"],
    package_dir={"debubble.calibration": "assets/calibration"},
    package_data={"debubble": ["views/*.js"], "debubble.calibration": ["*.json"]},
)
