"""Builds the board that the environment is named after, by refold's own recipe.

refold must be installed where PlatformIO is: ``pip install 'refold[hw]'``.
"""

import sys
from pathlib import Path

from SCons.Script import COMMAND_LINE_TARGETS, AlwaysBuild, Default, DefaultEnvironment

try:
    from refold.boards import load_board
    from refold.errors import RefoldError
    from refold.recipe import make_recipe
except ImportError as error:
    sys.exit(f"refold: {error}; install it beside PlatformIO: pip install 'refold[hw]'")

env = DefaultEnvironment()
try:
    recipe = make_recipe(Path(env["REFOLD_ARTEFACT"]), load_board(env["PIOENV"]))
except RefoldError as error:
    sys.exit(f"refold: {error}")

command = [f'"{word}"' for word in recipe.compiler.command]
env.Replace(
    CC=" ".join(command),
    CFLAGS=[],
    CCFLAGS=list(recipe.flags),
    ASFLAGS=list(recipe.flags),
    CPPPATH=[str(folder) for folder in recipe.include],
    LINK="$CC",
    LINKFLAGS=list(recipe.link_flags),
    LIBS=[],
    _LIBFLAGS=" ".join(recipe.compiler.ldflags),
)


def compiled(number: int, source: Path) -> object:
    """The object of a source; numbered, for names may repeat."""
    flags = [flag.replace('"', r"\"") for flag in recipe.source_flags(source)]
    target = f"$BUILD_DIR/objects/{number}-{source.stem}.o"
    return env.Object(target, str(source), CCFLAGS=flags, ASFLAGS=flags)


objects = [compiled(number, source) for number, source in enumerate(recipe.sources)]
program = env.Program("$BUILD_DIR/$PROGNAME", objects)
env.Depends(program, [str(path) for path in recipe.linker_script])
if "nobuild" not in COMMAND_LINE_TARGETS:
    AlwaysBuild(env.Alias("buildprog", program))
    Default(program)
