// Package connecttest checks connectors. [Reader] checks that a reader gives the same records at the same positions when it is
// read again. [Sink] checks that a sink contains each element as often as its effect says. Both hold whatever is killed and
// repeated in between.
//
//	func TestReader(t *testing.T) {
//		connecttest.Reader(t, func(t *testing.T) connecttest.Source[string, Mail] {
//			dir := mailbox(t, 100)
//			return connecttest.Source[string, Mail]{Reader: maildir.Open(dir), Want: map[string][]Mail{"inbox": mails}}
//		})
//	}
//
// The checks run real flows, on a history in memory that crashes.
package connecttest
