package intake

import (
	"testing"
	"time"
)

func TestMemory(t *testing.T) {
	m := memory{period: time.Hour}
	for i := range maxGeneration + 1 {
		m.add(digest{byte(i), byte(i >> 8), byte(i >> 16)})
	}
	if !m.has(digest{}) || len(m.young)+len(m.old) != maxGeneration+1 {
		t.Error("the previous generation is lost")
	}
	for i := range maxGeneration {
		m.add(digest{byte(i), byte(i >> 8), byte(i >> 16), 1})
	}
	if n := len(m.young) + len(m.old); n > 2*maxGeneration {
		t.Errorf("%d digests are kept", n)
	}
}
