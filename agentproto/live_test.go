package agentproto

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestLiveCollections checks that a flow built on the program receives the same effects and resolutions as its readers.
func TestLiveCollections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, built := startBuiltUpon(t)
		h.call(k1, nil)
		h.deliver(k1, subscribed("x"))
		h.deliver(k1, final("a"))
		h.stop()
		want := []EffectKind{Resolve, DeliverEvent, SubscriptionEnded}
		if got := built.kinds; !slices.Equal(got, want) {
			t.Errorf("effects %v, want %v", got, want)
		}
		if !slices.Equal(built.resolved, []CallKey{k1}) {
			t.Errorf("resolutions of %v", built.resolved)
		}
	})
}

// builtUpon records what was read through the live collections of a program.
type builtUpon struct {
	kinds    []EffectKind
	resolved []CallKey
}

func startBuiltUpon(t *testing.T) (*host, *builtUpon) {
	seen := new(builtUpon)
	return startProgram(t, ProgramOptions{}, func(p *Program) {
		keyedstream.InspectWithKey(p.Effects(), func(k CallKey, e Effect) {
			if e.Key != k {
				t.Errorf("the effect of %v says %v", k, e.Key)
			}
			seen.kinds = append(seen.kinds, e.Kind)
		})
		keyedsingleton.InspectWithKey(p.Resolutions(), func(k CallKey, _ *Resolution) { seen.resolved = append(seen.resolved, k) })
	}), seen
}
