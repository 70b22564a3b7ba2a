package authorize

import (
	"slices"
	"strings"
	"time"
)

// A State is the authorizations of one runtime.
//
// It maintains, between steps:
//
//  1. at most one job of a key is under way, which is Job of its holder, but for those of Discard,
//  2. a call has at most one authorization,
//  3. a holder without asks, authorizations, a job and something to give back is none,
//  4. Told is what all [Out].More together say.
type State struct {
	Holders []*Holder
	Pauses  []*Pause
	Jobs    uint64 // the number of the last job
	Loose   int    // jobs of Discard that are under way
	Told    int
}

// A Holder is what is under way for a key.
type Holder struct {
	Key    Key
	Job    uint64 // the one that is under way; 0 if there is none
	Asks   []*Waiting
	All    []*Authorization
	Revoke bool // the tokens are to be given back
}

// A Waiting is an ask that has no answer.
type Waiting struct {
	Token string
	Ask   Ask
}

// A Phase says how far an authorization is.
type Phase string

// The phases of an authorization. They only advance.
const (
	Open       Phase = "open"       // the user may complete it
	Arrived    Phase = "arrived"    // the code is there
	Confirming Phase = "confirming" // the token is in the memory of a process
	Confirmed  Phase = "confirmed"  // and may be kept
	Ended      Phase = "ended"      // the call has not ended, or has not heard of it
)

// An Authorization is what a call waits for.
type Authorization struct {
	Request
	Need    []string
	Refused string
	Phase   Phase
	Expires time.Duration
	Code    string
	Job     uint64 // the one that is under way for it
	Page    string // the token of the request for the page, or of the confirmation, which waits for an answer
	Count   int    // of the call's authorizations, with this one
	Class   Class  // of Ended
	Void    Class  // what it ends with when its job has ended, if that is settled
	Gone    bool   // its call has ended
}

// A Pause follows a wrong number. Key is what pausing returns.
type Pause struct {
	Key    Key
	Until  time.Duration
	Forget time.Duration // when another one is the first again
	Wrong  int
}

// Bounds.
const (
	maxOfCall    = 4    // authorizations of a call, in its life
	maxOfUser    = 64   // that are open
	maxOfRuntime = 256  //
	maxOfAll     = 1024 //
	maxPauses    = 4096 // of a runtime
)

// The pause after a wrong number doubles with each, and that is forgotten a day after the pause.
const (
	firstPause   = 10 * time.Minute
	longestPause = 24 * time.Hour
	rememberLast = 24 * time.Hour
)

func newState() *State { return new(State) }

// holder returns what is under way for a key.
func (s *State) holder(k Key) *Holder {
	for _, h := range s.Holders {
		if h.Key == k {
			return h
		}
	}
	h := &Holder{Key: k}
	s.Holders = append(s.Holders, h)
	return h
}

// find returns the authorization for which f reports true, or nil.
func (s *State) find(f func(*Authorization) bool) (*Holder, *Authorization) {
	for _, h := range s.Holders {
		if i := slices.IndexFunc(h.All, f); i >= 0 {
			return h, h.All[i]
		}
	}
	return nil, nil
}

// UserPrefix begins the name of a user whom an invocation has named.
const UserPrefix = "user:"

// ThreadPrefix begins the name of a user who is a conversation.
const ThreadPrefix = "thread:"

// pausing returns what a pause is for. All conversations without a user are one, since whoever
// guesses can begin as many as he likes.
func (k Key) pausing() Key {
	if strings.HasPrefix(k.User, ThreadPrefix) {
		k.User = ThreadPrefix
	}
	return k
}

func (s *State) pause(k Key) *Pause {
	for _, p := range s.Pauses {
		if p.Key == k.pausing() {
			return p
		}
	}
	return nil
}

// open returns how many authorizations are under way, and how many of a user.
func (s *State) open(user string) (all, of int) {
	for _, h := range s.Holders {
		for _, a := range h.All {
			if a.Phase != Ended {
				all++
				if h.Key.User == user {
					of++
				}
			}
		}
	}
	return all, of
}

// Covers reports whether every scope of need is in have.
func Covers(have, need []string) bool {
	return !slices.ContainsFunc(need, func(s string) bool { return !slices.Contains(have, s) })
}
