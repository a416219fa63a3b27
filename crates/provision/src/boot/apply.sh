# For a machine's first boot, as root: it brings the programs, `ebb` and the experiment, and lets `ebb apply` do the rest.

[ "$(id -u)" = 0 ] || refuse "run it as root"
[ -z "$(missing)" ] || install_programs
is_it() { echo "$sha256  $1" | sha256sum -c - >/dev/null 2>&1; }
if [ -n "$url" ] && ! is_it /usr/local/bin/ebb; then
    new=/usr/local/bin/.ebb-new
    rm -f "$new"
    if have curl; then curl -fsSL --retry 5 -o "$new" "$url"; else wget -q -O "$new" "$url"; fi || refuse "cannot fetch $url"
    is_it "$new" || refuse "what is at $url has the SHA-256 $(sha256sum "$new" | cut -d ' ' -f 1), and not $sha256"
    chmod 755 "$new" && sync && mv -f "$new" /usr/local/bin/ebb || refuse "cannot write /usr/local/bin/ebb"
fi
end=$(($(seconds) + wait))
for link in $links; do until [ -b "$link" ] || [ "$(seconds)" -ge "$end" ]; do sleep 1; done; done
