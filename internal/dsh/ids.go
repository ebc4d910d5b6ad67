package dsh

// maxIDLength is the longest id that is taken from the wire. The host's own ids are UUIDs with a short prefix.
const maxIDLength = 128

// ValidID reports whether id may be used as a session, request, approval, queue item or job id: 1 to 128 letters,
// digits and characters of "._:@-", and not "." or "..". Such ids end up in records and file names, so whatever else
// a host sends for one never leaves this package.
func ValidID(id string) bool {
	if len(id) == 0 || len(id) > maxIDLength || id == "." || id == ".." {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == ':', c == '@', c == '-':
		default:
			return false
		}
	}
	return true
}
