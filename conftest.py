"""What only this checkout needs, which is nothing: options, fixtures and hooks are the plugin's.

A project's own choices go here, as another folder of models (`pytest_lmsv_config_dirs`) or what is
to be done with a finished iteration (`pytest_lmsv_iteration_finished`); see pytest_lmsv/hookspecs.py.
"""
