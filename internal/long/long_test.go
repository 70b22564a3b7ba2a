package long

import "testing"

// TestOf checks that searches are long whenever Variable is not empty, even if it is 0.
func TestOf(t *testing.T) {
	for _, test := range []struct {
		value string
		long  bool
		want  int
	}{{"", false, 1}, {"1", true, 2}, {"0", true, 2}} {
		t.Setenv(Variable, test.value)
		if got := Of(1, 2); got != test.want || Searches() != test.long {
			t.Errorf("with %s=%q searches are long: %v; Of(1, 2) = %d, want %d", Variable, test.value, Searches(), got, test.want)
		}
	}
}
