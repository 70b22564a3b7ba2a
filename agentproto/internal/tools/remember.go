package tools

import (
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
)

// remember records that a call is finished, or that a reply was delivered.
func (t step) remember(key Key, f Finished) {
	if _, known := t.Done[key]; known {
		return
	}
	if len(f.Result) > maxKept || t.Results+int64(len(f.Result)) > maxKeptAll {
		t.dropResults(int64(len(f.Result)))
	}
	t.Done[key] = f
	t.Results += int64(len(f.Result))
	t.Order = append(t.Order, Aged{key, t.now})
	for len(t.Order) > maxDone {
		t.forget()
	}
}

// dropResults forgets the oldest results until there is room for the given number of bytes.
func (t step) dropResults(room int64) {
	for _, a := range t.Order {
		if t.Results+room <= maxKeptAll {
			return
		}
		f := t.Done[a.Key]
		t.Results -= int64(len(f.Result))
		f.Result = nil
		t.Done[a.Key] = f
	}
}

// limit forgets the oldest calls and results of this session if all sessions together remember too much.
func (t step) limit(all Load) {
	if all.Finished >= maxDoneAll {
		for range 2 {
			if len(t.Order) > maxDoneFull {
				t.forget()
			}
		}
	}
	if over := all.Results - maxKeptAll; over > 0 {
		t.dropResults(maxKeptAll - max(0, t.Results-over))
	}
}

// expire forgets calls that were finished long enough ago.
func (t step) expire() {
	for len(t.Order) > 0 && t.Remember < Forever && t.Order[0].At+t.Remember <= t.now {
		t.forget()
	}
	if until, set := t.forgetMove(); set && until <= t.now {
		t.Move = Move{}
	}
}

// forgetMove returns when the session's last move is forgotten, if it is set. A session that is here remembers it as long as a
// message about an earlier transfer may arrive.
func (t step) forgetMove() (at time.Duration, set bool) {
	switch m := &t.Move; {
	case m.Place == handover.Gone:
		return m.At + rememberMoved, true
	case m.Place == handover.Here && m.Transfer != "":
		return m.At + rememberTransfer, true
	}
	return 0, false
}

// forget forgets the call that was finished first.
func (t step) forget() {
	key := t.Order[0].Key
	t.Results -= int64(len(t.Done[key].Result))
	delete(t.Done, key)
	if t.Order = t.Order[1:]; len(t.Order) == 0 {
		t.Order = nil
	}
}
