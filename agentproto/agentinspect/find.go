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

// This file reads pages of what a runtime remembers, for the pages of this package and for an API that lists the same.

// An Each calls do for a page of what a runtime remembers.
type Each[S any] func(ctx context.Context, from dataflow.StatePlace, most int, do func(S)) (next dataflow.StatePlace, more bool, err error)

// Find returns a page of the wanted entries, at most most of them, and the start of the next page, which is empty if there is none.
// From is the start that the previous page returned, or empty. If few of many entries are wanted, the page may have fewer entries
// than exist, or none, when the time is up.
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
		// Not more than fit: entries that were read but not returned would be missing from the next page.
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

// ErrBadPlace says that the requested start of a page was not returned by an earlier page.
var ErrBadPlace = errors.New("agentinspect: a page begins where a page before says")

// placeOf parses the start of a page, as returned by nextOf.
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

// nextOf returns the start of the next page for placeOf, or "".
func nextOf(p dataflow.StatePlace, more bool) string {
	if !more {
		return ""
	}
	return fmt.Sprintf("%d.%d", p.Partition, p.Entry)
}

// states are the filters of calls by name.
var states = map[string]func(host.CallStanding) bool{
	"":           func(host.CallStanding) bool { return true },
	"open":       func(st host.CallStanding) bool { return st.State != agentproto.Completed },
	"pending":    func(st host.CallStanding) bool { return st.State == agentproto.Pending },
	"oauth":      func(st host.CallStanding) bool { return st.State == agentproto.OAuthPending },
	"choice":     func(st host.CallStanding) bool { return st.State == agentproto.ChoicePending },
	"completed":  func(st host.CallStanding) bool { return st.State == agentproto.Completed },
	"subscribed": func(st host.CallStanding) bool { return st.Subscribed },
}

// CallFilter returns the filter of calls with a name, such as open, or nil for an unknown name. The empty name selects all calls.
func CallFilter(name string) func(host.CallStanding) bool { return states[name] }

// CallFilters returns the names of the filters of calls.
func CallFilters() []string { return slices.Sorted(maps.Keys(states)) }

// ThreadState describes the state of a thread in a few words.
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
