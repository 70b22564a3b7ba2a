package agentinspect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow"
)

// Pages of what a runtime remembers, for the pages of this package and for an API that lists the same.

// An Each calls do with a page of what a runtime remembers.
type Each[S any] func(ctx context.Context, from dataflow.StatePlace, most int, do func(S)) (next dataflow.StatePlace, more bool, err error)

// Find returns a page of what is wanted, of most entries, and where the next one begins, which is empty if there is none; from is that of the
// page before, or empty. If little is wanted of much, a page has less than it might,
// or nothing, when the time is up.
func Find[S, T any](ctx context.Context, from string, most int, all Each[S], wanted func(S) (T, bool)) (found []T, next string, err error) {
	place, err := placeOf(from)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found = []T{}
	for ended := time.Now().Add(patience / 2); ; {
		var more bool
		// No more than fit: what was looked at and not taken would be missing in the next page.
		place, more, err = all(ctx, place, most-len(found), func(s S) {
			if t, ok := wanted(s); ok {
				found = append(found, t)
			}
		})
		if err != nil {
			return nil, "", err
		}
		if !more || len(found) == most || time.Now().After(ended) {
			return found, nextOf(place, more), nil
		}
	}
}

// ErrBadPlace says that a page was asked for which begins where no page before has ended.
var ErrBadPlace = errors.New("agentinspect: a page begins where a page before says")

// placeOf reads where a page begins, from what a page before has given as its next.
func placeOf(text string) (p dataflow.StatePlace, err error) {
	if text == "" {
		return p, nil
	}
	partition, entry, ok := strings.Cut(text, ".")
	n, wrong := strconv.Atoi(partition)
	e, wrong2 := strconv.ParseUint(entry, 10, 32)
	if !ok || wrong != nil || wrong2 != nil || n < 0 {
		return p, ErrBadPlace
	}
	return dataflow.StatePlace{Partition: n, Entry: uint32(e)}, nil
}

// nextOf is what placeOf reads.
func nextOf(p dataflow.StatePlace, more bool) string {
	if !more {
		return ""
	}
	return fmt.Sprintf("%d.%d", p.Partition, p.Entry)
}

// states are the names by which calls are asked for.
var states = map[string]func(host.CallStanding) bool{
	"":           func(host.CallStanding) bool { return true },
	"open":       func(st host.CallStanding) bool { return st.State != agentproto.Completed },
	"pending":    func(st host.CallStanding) bool { return st.State == agentproto.Pending },
	"oauth":      func(st host.CallStanding) bool { return st.State == agentproto.OAuthPending },
	"choice":     func(st host.CallStanding) bool { return st.State == agentproto.ChoicePending },
	"completed":  func(st host.CallStanding) bool { return st.State == agentproto.Completed },
	"subscribed": func(st host.CallStanding) bool { return st.Subscribed },
}

// CallFilter returns what reports whether a call is one of those that a name stands for, such as open; nil for a name that stands for none.
// The empty name stands for all.
func CallFilter(name string) func(host.CallStanding) bool { return states[name] }

// CallFilters returns the names of the filters of calls.
func CallFilters() []string { return slices.Sorted(maps.Keys(states)) }

// ThreadState returns where a thread stands in a few words.
func ThreadState(st conversation.Standing) string {
	switch {
	case st.Place != "here":
		return st.Place
	case st.Closed:
		return "closed"
	case st.Asking:
		return "the model is asked"
	case st.Authorizing > 0:
		return "waits for an authorization"
	case st.Pending > 0:
		return "waits for calls"
	}
	return "at rest"
}
