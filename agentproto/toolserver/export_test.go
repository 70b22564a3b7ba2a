package toolserver

// Finds reports whether a text contains one of the secrets, in any encoding that is
// looked for.
func Finds(text []byte, secrets ...string) bool {
	var g leakGuard
	g.addOnce(secrets...)
	return g.finds(text)
}
