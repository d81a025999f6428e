"""What an address says of the machine it lies on is left out."""

import pytest

from gradskip_onnx.addresses import without_place


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("planted:200", "planted:200"),
        ("photos", "photos"),
        ("data/photos", "data/photos"),
        ("/home/ada/photos", "photos"),
        ("/home/ada/photos/", "photos"),
        ("C:\\Users\\ada\\photos", "photos"),
        ("\\\\server\\share\\photos", "photos"),
        ("sftp://ada:secret@host.example/data/photos", "photos"),
        ("file:///home/ada/photos", "photos"),
    ],
)
def test_no_folder_and_no_host(address: str, name: str):
    assert without_place(address) == name
