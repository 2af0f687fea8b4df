#!/bin/bash
# An attack that has not been made is told from one that was beaten: with no tries, every one is.

set -euo pipefail
hostile=$1
table=$TEST_TMPDIR/table.json
if "$hostile" '--provider=tcp;ofi_rxm' --data-auth=header --tries=0 "--json=$table"; then
  echo "no attack was made, and all is well"
  exit 1
fi
attacks=$(grep -o '"attack":' "$table" | wc -l)
told=$(grep -oE '"verdict": *"NO ATTACK' "$table" | wc -l)
echo "attacks: $attacks, of them told: $told"
[ "$attacks" -gt 20 ] && [ "$told" -eq "$attacks" ]
