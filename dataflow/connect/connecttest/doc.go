// Package connecttest shows whether a connector is right: whether a reader gives the same records at the same positions when it is
// read again, and whether a sink has each element as often as its effect says, whatever is killed and repeated in between.
//
//	func TestReader(t *testing.T) {
//		connecttest.Reader(t, func(t *testing.T) connecttest.Source[string, Mail] {
//			dir := mailbox(t, 100)
//			return connecttest.Source[string, Mail]{Reader: maildir.Open(dir), Want: map[string][]Mail{"inbox": mails}}
//		})
//	}
//
// The flows are real ones, on a history in memory that crashes.
package connecttest
