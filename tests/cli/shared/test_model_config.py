from evenflow.cli.shared.model_config import config_path, read_config


def test_a_folder_stands_for_its_configuration_and_names_the_model(tmp_path):
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text('{"hidden_size": 64}')
    path = config_path(str(folder))
    assert path == str(folder / "config.json")
    config = read_config(path)
    assert (config.name, dict(config.fields.values)) == ("llama", {"hidden_size": 64})


def test_a_file_names_the_model(tmp_path):
    file = tmp_path / "llama3_70b.json"
    file.write_text("{}")
    assert config_path(str(file)) == str(file)
    assert read_config(str(file)).name == "llama3_70b"
