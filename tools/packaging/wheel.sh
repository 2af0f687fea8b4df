# Makes a wheel. Sourced by tools/package after layout.sh, with $scratch and $output.

# The release of libfabric in the wheel, and its providers (rxm is part of tcp;ofi_rxm).
wheel_libfabric=(2.1.0 shm tcp rxm)

# Every Linux machine has these; their releases are in the wheel's tag, and pip compares the C library's.
runtime_libraries='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+)\.so'
# Choices that libfabric_choice.c and libibverbs_of_site.c make when a program starts.
site_libraries='^(libfabric|libibverbs|librdmacm)\.so'

# needed FILE: the libraries that it names.
needed() { patchelf --print-needed "$1"; }

# own_name FILE: the library's name in the wheel, which no other copy in a process has.
own_name() { printf '%s-%s.%s' "${1%%.so*}" "$(sha256sum <"$2" | head -c 8)" "${1#*.}"; }

# Copies what the programs in $@ need to $libraries, under names of their own. Fills renamed. Not what only the site's
# libraries need: these are not in the wheel.
bundle_libraries() {
  local pending=("$@") name path
  local -A path_of=()
  ldd "$@" >"$scratch/ldd"
  while read -r name path; do path_of[$name]=$path; done < <(sed -n 's/^\t\(.*\) => \(\/.*\) (0x.*$/\1 \2/p' "$scratch/ldd")
  while [ ${#pending[@]} -gt 0 ]; do
    needed "${pending[0]}" >"$scratch/needed"
    pending=("${pending[@]:1}")
    while read -r name; do
      [[ -n ${renamed[$name]:-} || $name =~ $runtime_libraries || $name =~ $site_libraries ]] && continue
      path=${path_of[$name]:-}
      [ -n "$path" ] || fail "there is no library $name"
      renamed[$name]=$(own_name "$name" "$path")
      cp -L "$path" "$libraries/${renamed[$name]}"
      chmod 755 "$libraries/${renamed[$name]}"
      pending+=("$path")
    done <"$scratch/needed"
  done
}

# versions_of PREFIX FILE...: "SYMBOL VERSION" for each symbol that the files expect of a library.
versions_of() {
  nm -D --undefined-only "${@:2}" | sed -n "s/^ *U \($1[a-z_]*\)@\([A-Z0-9_.]*\)$/\1 \2/p" | sort -u
}

# build_choice SOURCE PREFIX SONAME FLAGS...: a library that stands for one of the site's, with the versions of its symbols.
build_choice() {
  local source=$1 prefix=$2 soname=$3 flags=() map=$scratch/map symbol version
  local -A of_version=()
  while read -r symbol version; do
    flags+=("-DVERSION_$symbol=\"$version\"")
    of_version[$version]+="$symbol; "
  done < <(versions_of "$prefix" "${programs[@]}")
  for version in "${!of_version[@]}"; do printf '%s { global: %s};\n' "$version" "${of_version[$version]}"; done >"$map"
  printf 'INVOKER_LOCAL { local: *; };\n' >>"$map"
  g++ -xc -std=c11 -O2 -s -Wall -Wextra -Werror -fPIC -shared -o "$libraries/$soname" "${flags[@]}" "${@:4}" \
    "$here/tools/packaging/wheel/$source" -Wl,-soname,"$soname" -Wl,--version-script="$map" -Wl,-z,defs -ldl
  for symbol in $(versions_of "$prefix" "${programs[@]}" | cut -d' ' -f1); do
    nm -D --defined-only "$libraries/$soname" | grep " T $symbol@" >/dev/null || fail "$source has no $symbol, which is called"
  done
}

# use_own_names FILE RPATH
use_own_names() {
  local arguments=() name
  while read -r name; do
    if [[ $name == librdmacm.so.1 ]]; then
      arguments+=(--remove-needed "$name")
    elif [ -n "${renamed[$name]:-}" ]; then
      arguments+=(--replace-needed "$name" "${renamed[$name]}")
    fi
  done < <(needed "$1")
  # Apart: together with a new path, patchelf 0.14 forgets the names.
  [ ${#arguments[@]} -eq 0 ] || patchelf "${arguments[@]}" "$1"
  patchelf --force-rpath --set-rpath "$2" "$1"
}

make_wheel() {
  local tree=$scratch/wheel version python glibc tag fabric name
  version=$(invoker_version)
  python=$(/usr/bin/python3 -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  glibc=$(getconf GNU_LIBC_VERSION | sed 's/glibc //; s/\./_/')
  tag=$python-$python-manylinux_${glibc}_x86_64
  local data=$tree/invoker-$version.data info=$tree/invoker-$version.dist-info
  local -g libraries=$tree/invoker.libs
  local -gA renamed=()
  mkdir -p "$libraries" "$info"

  install_python "$tree"
  root=$data
  for name in invoker invoker_server invoker_executor; do put "$here/bazel-bin/tools/$name" 755 scripts; done
  put "$here/bazel-bin/tools/invoker_self_test" 755 data/lib/invoker
  local -g programs=("$tree"/invoker/_native/{_invoker.so,invoker_self_test} "$data"/scripts/* "$data/data/lib/invoker/invoker_self_test")
  mkdir -p "$tree/invoker/_vendor"
  cp -r /usr/lib/python3/dist-packages/cloudpickle "$tree/invoker/_vendor/"
  cp /usr/share/doc/python3-cloudpickle/copyright "$tree/invoker/_vendor/cloudpickle/LICENSE"
  find "$tree" -name __pycache__ -prune -exec rm -rf {} +

  bundle_libraries "${programs[@]}"
  fabric=$("$here/tools/packaging/build_libfabric" "${wheel_libfabric[@]}")
  fabric=$(realpath "$fabric/libfabric.so.1")
  name=$(own_name libfabric-bundled.so.1 "$fabric")
  # Debian's libraries are stripped already, and after patchelf nothing may be.
  strip --strip-unneeded -o "$libraries/$name" "$fabric"
  patchelf --set-soname "$name" "$libraries/$name"
  renamed[libfabric.so.1]=libfabric-choice-invoker.so.1
  renamed[libibverbs.so.1]=libibverbs-of-site-invoker.so.1
  build_choice libfabric_choice.c fi_ "${renamed[libfabric.so.1]}" "-DBUNDLED=\"$name\"" \
    "-DBUNDLED_NUMBER=\"${fabric##*.so.1.}\""
  build_choice libibverbs_of_site.c ibv_ "${renamed[libibverbs.so.1]}"

  for name in "${renamed[@]}"; do
    patchelf --set-soname "$name" "$libraries/$name"
    use_own_names "$libraries/$name" '$ORIGIN'
  done
  use_own_names "$tree/invoker/_native/_invoker.so" '$ORIGIN/../../invoker.libs'
  use_own_names "$tree/invoker/_native/invoker_self_test" '$ORIGIN/../../invoker.libs'
  # In a venv and below ~/.local, in a folder of pip's --target, and where Debian's pip installs for all users.
  local packages=lib/python${python:2:1}.${python:3}
  for name in "$data"/scripts/*; do
    use_own_names "$name" "\$ORIGIN/../$packages/site-packages/invoker.libs:\$ORIGIN/../invoker.libs:\$ORIGIN/../$packages/dist-packages/invoker.libs"
  done
  use_own_names "$data/data/lib/invoker/invoker_self_test" \
    "\$ORIGIN/../../$packages/site-packages/invoker.libs:\$ORIGIN/../../invoker.libs:\$ORIGIN/../../$packages/dist-packages/invoker.libs"

  cat >"$info/METADATA" <<END
Metadata-Version: 2.1
Name: invoker
Version: $version
Summary: Calls functions on other machines in microseconds, over libfabric ($(IFS=' '; echo "${wheel_libfabric[*]:1:2}") of libfabric ${wheel_libfabric[0]} inside)
Requires-Python: ==${python:2:1}.${python:3}.*
END
  cat >"$info/WHEEL" <<END
Wheel-Version: 1.0
Generator: tools/package
Root-Is-Purelib: false
Tag: $tag
END
  /usr/bin/python3 -m wheel pack --dest-dir "$output" "$tree" >"$scratch/log" || fail "$(cat "$scratch/log")"
  printf '%s\n' "$output/invoker-$version-$tag.whl"
}
