package main

import "fmt"

// A store is what the lock guards. It does not know the keeper, only the tokens: a
// client that was asleep when its lease ended still believes that it holds the lock,
// and is refused here because somebody with a larger token came before it.
type store struct {
	newest token
	writes int
}

func (s *store) write(t token) error {
	if t < s.newest {
		return fmt.Errorf("token %d is older than %d", t, s.newest)
	}
	s.newest = t
	s.writes++
	return nil
}
