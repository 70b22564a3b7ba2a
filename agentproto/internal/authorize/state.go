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
//  1. at most one job of a key is in progress, not counting Discard jobs; it is Job of its holder,
//  2. a call has at most one authorization,
//  3. a holder without asks, authorizations, job and revocation is removed,
//  4. Told is the sum of all [Out].More.
type State struct {
	Holders []*Holder
	Pauses  []*Pause
	Jobs    uint64 // the number of the last job
	Loose   int    // Discard jobs in progress
	Told    int
}

// A Holder is everything in progress for a key.
type Holder struct {
	Key    Key
	Job    uint64 // the job in progress; 0 for none
	Asks   []*Waiting
	All    []*Authorization
	Revoke bool // the tokens must be given back
}

// A Waiting is an ask without an answer.
type Waiting struct {
	Token string
	Ask   Ask
}

// A Phase is the progress of an authorization.
type Phase string

// The phases of an authorization. They only advance.
const (
	Open       Phase = "open"       // the user may complete it
	Arrived    Phase = "arrived"    // the code has arrived
	Confirming Phase = "confirming" // the token is only in the memory of a process
	Confirmed  Phase = "confirmed"  // the token may be stored
	Ended      Phase = "ended"      // the call has not ended, or has not received the outcome
)

// An Authorization is a request to a user that a call waits for.
type Authorization struct {
	Request
	Need    []string
	Refused string
	Phase   Phase
	Expires time.Duration
	Code    string
	Job     uint64 // the job in progress for it
	Page    string // the token of the page's request, or of the confirmation, that waits for an answer
	Count   int    // how many authorizations the call had, including this one
	Class   Class  // of Ended
	Void    Class  // the class that it ends with after its job, if already decided
	Gone    bool   // its call has ended
}

// A Pause follows a wrong number. Key is the result of Key.pausing.
type Pause struct {
	Key    Key
	Until  time.Duration
	Forget time.Duration // when the number of wrong numbers is reset
	Wrong  int
}

// Limits.
const (
	maxOfCall    = 4    // authorizations per call, over its life
	maxOfUser    = 64   // open ones per user
	maxOfRuntime = 256  //
	maxOfAll     = 1024 //
	maxPauses    = 4096 // per runtime
)

// The pause after a wrong number doubles each time. The count is reset a day after the pause.
const (
	firstPause   = 10 * time.Minute
	longestPause = 24 * time.Hour
	rememberLast = 24 * time.Hour
)

func newState() *State { return new(State) }

// holder returns the holder of a key, and adds it if necessary.
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

// find returns the first authorization for which f reports true, with its holder, or nil.
func (s *State) find(f func(*Authorization) bool) (*Holder, *Authorization) {
	for _, h := range s.Holders {
		if i := slices.IndexFunc(h.All, f); i >= 0 {
			return h, h.All[i]
		}
	}
	return nil, nil
}

// UserPrefix begins the name of a user that an invocation has named.
const UserPrefix = "user:"

// ThreadPrefix begins the name of a user that stands for a conversation.
const ThreadPrefix = "thread:"

// pausing returns the key of a pause. All conversations without a user share one, since an attacker
// can begin any number of them.
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

// open returns how many authorizations are in progress, and how many of them belong to a user.
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
