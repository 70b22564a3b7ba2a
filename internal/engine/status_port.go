package engine

func (out *Outlet[T]) figures() OutputStatus {
	out.mu.Lock()
	defer out.mu.Unlock()
	return OutputStatus{Op: out.op, Kind: Elements, Unread: len(out.buf) - out.off, Given: out.first + out.gone + uint64(len(out.buf)), Bound: out.bound}
}

func (out *KOutlet[K, V]) figures() OutputStatus {
	out.mu.Lock()
	defer out.mu.Unlock()
	return OutputStatus{Op: out.op, Kind: Entries, Unread: out.entries.Len(), Given: out.given, Bytes: out.entries.Bytes()}
}

func (out *CellOutlet[T]) figures() OutputStatus {
	out.mu.Lock()
	defer out.mu.Unlock()
	return OutputStatus{Op: out.op, Kind: Value, Given: out.version}
}

// figures counts calls that have no answer: those that run, and those whose turn comes.
func (a *async[K, V, U]) figures() OutputStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := OutputStatus{Op: a.op, Kind: Calls, Running: a.running, Waiting: len(a.queue.k) - a.off, Bound: a.site.g.set.Queue}
	if a.coming { // one of them has no call yet
		o.Running--
	}
	return o
}

// figures of what goes to another location: in a graph whose history is kept outside, what
// is not known to be sent. The owner of the leader asks.
func (b *sending) figures() OutputStatus {
	o := OutputStatus{Op: b.op, Kind: Sent, Unread: len(b.buf), Given: b.first + uint64(len(b.buf))}
	if b.from.g.Kept() {
		o.Bound = b.from.g.set.Queue
	}
	return o
}

func (c *Cycle[T]) figures() OutputStatus { return OutputStatus{Op: c.op, Kind: Cycled} }
