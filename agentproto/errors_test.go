package agentproto

import "testing"

// TestClip cuts texts of peers where a rune begins. It would miss one that is cut although it
// fits, that is longer than it may be, that ends in half a rune, or that has no beginning of a rune.
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
