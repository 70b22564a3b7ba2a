package agentproto

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestThreat30_PlainText fails if a reader could see something other than what a model reads.
func TestThreat30_PlainText(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"Adds two numbers.\nSlowly.", "Adds two numbers.\nSlowly."},
		{"a\r\nb\rc\u2028d\u2029e", "a\nb\nc\nd\ne"},
		{"\x1b[31mred\x07\x00", "[31mred"},
		{"pay \u202E001\u202C\u2066x\u2069\u200E\u061C", "pay 001x"},
		{"in\u200Bvis\u00ADi\uFEFFble\u3164", "invisible"},
		{"x\U000E0069\U000E0067\U000E006E\U000E006F\U000E0072\U000E0065", "x"},
		{"नमस्ते क्\u200Dष 👩\u200D🔬 שלום", "नमस्ते क्\u200Dष 👩\u200D🔬 שלום"},
		{"\xff", "\uFFFD"},
	} {
		if got := PlainText(test.in, 1000); got != test.want {
			t.Errorf("%q became %q, want %q", test.in, got, test.want)
		}
	}
	long := strings.Repeat("é", 100)
	if got := PlainText(long, 101); got != long[:100]+"…" || !utf8.ValidString(got) {
		t.Errorf("cut to %q", got)
	}
}
