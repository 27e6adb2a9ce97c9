"""A shim: pyproject.toml describes the package. Here is what only code can say: its folders."""

from setuptools import find_packages, setup

setup(
    # Settings files and plans live in hparams/, beside the package; a wheel has them inside.
    packages=[
        *find_packages(include=["aevnmt_tf", "aevnmt_tf.*"]),
        "aevnmt_tf.shipped_hparams",
        "aevnmt_tf.shipped_hparams.plans",
    ],
    package_dir={
        "aevnmt_tf.shipped_hparams": "hparams",
        "aevnmt_tf.shipped_hparams.plans": "hparams/plans",
    },
    package_data={
        "": ["*.json", "*.txt", "*.proto", "py.typed"],
        "aevnmt_tf.data": ["demo/*.bz2"],
        "aevnmt_tf.serving": ["page/*"],
    },
)
