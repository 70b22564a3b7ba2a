package durable

import (
	"context"
	"math"
	"sync"
)

// A reserved is the space reserved for states that are being rewritten. Owners in other processes do not know
// of it.
type reserved struct {
	mu    sync.Mutex
	bytes int64
}

// reserve reserves space for the whole state in the next snapshot, if remains bytes stay free besides. The
// space is released when the snapshot has been made.
//
// An estimate is not enough: a snapshot for which a byte is missing waits for ever, since only it could free space.
// What is stored is more than the state has, except for what has come in since, which operators and outputs may both
// keep. If that much does not fit, the state is measured, while steps wait for as long as writing it takes.
func (o *owner) reserve(ctx context.Context, remains int64) bool {
	room, err := o.log.Room(ctx)
	if err != nil || o.reserves > 0 {
		return false
	}
	live := int64(o.cutter.Live())
	whole := max(o.stored.bytes(), live) + 2*int64(o.unsaved) + o.limit/16
	if whole > room.Free-remains {
		if live+o.underrated > room.Free-remains {
			return false
		}
		size, err := o.executor.Size()
		if err != nil {
			return false // the snapshot says why
		}
		whole = int64(size+size/256) + 1<<10 // with what the log adds
		o.underrated = max(whole-live, 0)
	}
	o.reserved.mu.Lock()
	defer o.reserved.mu.Unlock()
	room, err = o.log.Room(ctx)
	if err != nil || o.reserved.bytes+whole > room.Free-remains {
		return false
	}
	o.reserved.bytes += whole
	o.reserves += whole
	return true
}

// rewrite makes the next snapshot write the whole state. The one after it then deletes all that is stored now.
func (o *owner) rewrite() {
	o.cutter.Again()
	o.unknown += max(int(o.stored.bytes()), fewBytes)
}

func (o *owner) release(bytes int64) {
	o.reserved.mu.Lock()
	defer o.reserved.mu.Unlock()
	o.reserved.bytes -= bytes
}

// cleaning returns how much of the unchanged state a snapshot may rewrite. It leaves space for another
// snapshot, which deletes what was before this one.
func (o *owner) cleaning(ctx context.Context) int {
	if o.limit == 0 {
		return math.MaxInt
	}
	room, err := o.log.Room(ctx)
	if err != nil {
		return 0
	}
	o.reserved.mu.Lock()
	defer o.reserved.mu.Unlock()
	return int(min(max(room.Free-room.Limit/16-o.reserved.bytes, 0), math.MaxInt))
}
