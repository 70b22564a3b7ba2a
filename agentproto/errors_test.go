package agentproto

import "testing"

// TestClip cuts texts of peers at rune boundaries. It catches a text that is cut although it fits,
// that is too long, that ends in half a rune, or that contains no start of a rune.
func TestClip(t *testing.T) {
	tests := []struct {
		s    string
		n    int
		want string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"aä", 2, "a…"},
		{"aäb", 3, "aä…"},
		{"ä", 1, "…"},
		{"€€", 5, "€…"},
		{"\x80\x80\x80", 2, "…"},
		{"\xff\x80\x80", 1, "…"},
	}
	for _, test := range tests {
		if got := clip(test.s, test.n); got != test.want {
			t.Errorf("clip(%q, %d) = %q, want %q", test.s, test.n, got, test.want)
		}
	}
}
