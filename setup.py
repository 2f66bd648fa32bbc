"""What pyproject.toml can't say: calibrations lie in `assets/`, and in a wheel with the code."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["debubble", "debubble.*"]), "debubble.calibration"],
    package_dir={"debubble.calibration": "assets/calibration"},
    package_data={
        "debubble": ["py.typed", "views/**/*.js", "views/race/words.json", "commands/board/page.*"],
        "debubble.calibration": ["*.json", "kernels/*.json"],
    },
    py_modules=["debubble_pytest"],
)
