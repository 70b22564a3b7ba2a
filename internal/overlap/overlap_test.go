package overlap

import (
	"flag"
	"testing"
)

// TestTests checks that Tests changes the flag if it has its default, and only then.
func TestTests(t *testing.T) {
	p := flag.Lookup("test.parallel")
	was := p.Value.String()
	defer p.Value.Set(was)
	p.Value.Set(p.DefValue)
	if Tests(); p.Value.String() != AtOnce {
		t.Errorf("%s tests run at once, want %s", p.Value, AtOnce)
	}
	p.Value.Set("3")
	if Tests(); p.Value.String() != "3" {
		t.Errorf("%s tests run at once, although the flag says 3", p.Value)
	}
}
