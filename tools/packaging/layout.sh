# Where each file of an installation goes. Sourced by tools/install and tools/package, with $here as the checkout.

install_targets=(
  //tools:invoker //tools:invoker_server //tools:invoker_executor //tools:invoker_self_test
  //src/invoke:libinvoker.so //src/python/invoker
)

invoker_version() {
  awk '$2 ~ /^INVOKER_VERSION_(MAJOR|MINOR|PATCH)$/ { print $3 }' "$here/src/invoke/version.h" | paste -sd.
}

# fill FILE UP: a template, with its words between @ replaced. UP leads from the file's folder to the prefix.
fill() {
  local version
  version=$(invoker_version)
  sed -e "s|@version@|$version|g" -e "s|@major@|${version%%.*}|g" -e "s|@minor@|$(cut -d. -f2 <<<"$version")|g" \
    -e "s|@libdir@|$libdir|g" -e "s|@bindir@|$prefix/bin|g" -e "s|@up@|$2|g" "$here/tools/packaging/$1"
}

# put FILE MODE FOLDER [NAME]: a file into a folder below the root, stripped if it is a program or a library.
put() {
  local target=$root/$3/${4:-${1##*/}}
  mkdir -p "$root/$3"
  # Not over the old file, which may be running.
  rm -f "$target"
  cp -L "$1" "$target"
  chmod u+w "$target"
  case $(head -c 4 "$target" | tr -d '\0') in $'\x7fELF') strip --strip-unneeded "$target" ;; esac
  chmod "$2" "$target"
}

# put_text MODE FOLDER NAME: standard input.
put_text() {
  mkdir -p "$root/$2"
  cat >"$root/$2/$3"
  chmod "$1" "$root/$2/$3"
}

# manual_page PROGRAM [COMMAND]: from --help; the first sentence there is the page's name.
manual_page() {
  local page=${1##*/}${2:+-$2} summary
  summary=$("$1" ${2:+"$2"} --help | sed -n '1s/\..*//p')
  help2man --no-info --section=1 --name="${summary,}" --version-string="$(invoker_version)" \
    --source="Invoker $(invoker_version)" "$1${2:+ $2}" |
    sed -e "s/^\.TH [^ ]*/.TH ${page^^}/" -e "s/^${1##*/}${2:+ $2} \\\\-/$page \\\\-/" | put_text 644 share/man/man1 "$page.1"
}

# install_python FOLDER
install_python() {
  local root=$1 file
  while read -r file; do
    case $file in
      *.py | *.pyi | */py.typed) put "$here/bazel-bin/src/python/$file" 644 "$(dirname "$file")" ;;
      *) put "$here/bazel-bin/src/python/$file" 755 "$(dirname "$file")" ;;
    esac
  done < <(cd "$here/bazel-bin/src/python" && find invoker \( -name _objs -o -name __pycache__ -o -name '*.runfiles' \) -prune -o \( -name '*.py' -o \
    -name '*.pyi' -o -name py.typed -o -name '_invoker.so' -o -name invoker_self_test \) -print)
}

# install_tree DESTDIR PREFIX LIBDIR
install_tree() {
  local destdir=$1 prefix=$2 libdir=$3
  local root=$destdir$prefix bin=$here/bazel-bin up
  command -v help2man >/dev/null || { printf 'there is no help2man: run tools/setup build\n' >&2; return 1; }

  for program in invoker invoker_server invoker_executor; do put "$bin/tools/$program" 755 bin; done
  # Programs find it from bin, and programs with the library from the library's folder.
  put "$bin/tools/invoker_self_test" 755 lib/invoker

  put "$bin/src/invoke/libinvoker.so" 644 "$libdir" libinvoker.so.0
  ln -sfn libinvoker.so.0 "$root/$libdir/libinvoker.so"
  for header in "$here"/src/invoke/*.h; do put "$header" 644 include/invoker; done
  # From lib/pkgconfig two steps lead to the prefix, and one more for each further folder in LIBDIR.
  up=$(sed 's|[^/]*|..|g' <<<"$libdir")
  for name in invoker invoker-function; do fill "$name.pc.in" "$up/.." | put_text 644 "$libdir/pkgconfig" "$name.pc"; done
  for name in InvokerConfig InvokerConfigVersion; do
    fill "$name.cmake.in" "$up/../.." | put_text 644 "$libdir/cmake/Invoker" "$name.cmake"
  done

  manual_page "$bin/tools/invoker_server"
  manual_page "$bin/tools/invoker"
  "$bin/tools/invoker" --help | sed -n '/^Subcommands:/,$s/^  \([a-z]*\) .*/\1/p' >"$root/commands"
  while read -r command; do manual_page "$bin/tools/invoker" "$command" </dev/null; done <"$root/commands"
  rm "$root/commands"
  printf '.so man1/invoker_server.1\n' | put_text 644 share/man/man1 invoker_executor.1
  put "$here/tools/packaging/invoker.bash" 644 share/bash-completion/completions invoker
  ln -sfn invoker "$root/share/bash-completion/completions/invoker_server"
  fill invoker_server.service.in "" | put_text 644 lib/systemd/system invoker_server.service

  for page in "$here"/README.md "$here"/docs/*.svg "$here"/docs/*/*.md "$here"/docs/*/*.svg; do
    put "$page" 644 "share/doc/invoker/$(dirname "${page#"$here/"}")"
  done
  for file in CMakeLists.txt Makefile functions.cc worker.cc client.cc; do
    put "$here/examples/consumer/$file" 644 share/doc/invoker/examples/consumer
  done
}
