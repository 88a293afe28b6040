"""What only this checkout needs, which is nothing: options, fixtures and hooks are the plugin's.

A project's own choices go here, as another folder of models or what is to be done with a finished
iteration: see pytest_lmsv/hookspecs.py.
"""
