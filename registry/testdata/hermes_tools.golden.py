import json

__all__ = []


def _tool(function):
    __all__.append(function.__name__)
    return function


def _call(tool, args):
    return {"tool": tool, "args": args}


@_tool
def patch(path: str = None, old_string: str = None, new_string: str = None, replace_all: bool = False, mode: str = "replace", patch: str = None, cross_profile: bool = False):
    """Change files."""
    return _call("patch", {"path": path, "old_string": old_string, "new_string": new_string, "replace_all": replace_all, "mode": mode, "patch": patch, "cross_profile": cross_profile})


@_tool
def read_file(path: str, offset: int = 1, limit: int = 500):
    """Read a file. The dict has "content" and "total_lines"."""
    return _call("read_file", {"path": path, "offset": offset, "limit": limit})


@_tool
def search_files(pattern: str, target: str = "content", path: str = ".", file_glob: str = None, limit: int = 50, offset: int = 0, output_mode: str = "content", context: int = 0):
    """Search contents or names. The dict has \"matches\""""
    return _call("search_files", {"pattern": pattern, "target": target, "path": path, "file_glob": file_glob, "limit": limit, "offset": offset, "output_mode": output_mode, "context": context})


@_tool
def terminal(command: str, timeout: int = None, workdir: str = None):
    """Run a shell command."""
    return _call("terminal", {"command": command, "timeout": timeout, "workdir": workdir})


@_tool
def web_extract(urls: list):
    """Extract pages."""
    return _call("web_extract", {"urls": urls})


@_tool
def web_search(query: str, limit: int = 5):
    """Search the web."""
    return _call("web_search", {"query": query, "limit": limit})


@_tool
def write_file(path: str, content: str, cross_profile: bool = False):
    """Write a file."""
    return _call("write_file", {"path": path, "content": content, "cross_profile": cross_profile})
