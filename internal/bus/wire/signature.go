package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// Every attempt has a key that only its worker and the director know. A stage's program might steal the worker's bus
// credential and publish in the worker's name, but it cannot sign.

// signed maps each signed message type to the field that names its attempt.
var signed = map[string]string{
	WorkerError{}.MessageType(): "worker_id", WorkerResult{}.MessageType(): "attempt_id",
	Checkpoint{}.MessageType(): "attempt_id",
}

// messageIDBytes is the number of digest bytes in a message id, enough to make ids unguessable.
const messageIDBytes = 16

// signatureText is strict, so that each signature has only one encoding.
var signatureText = base64.RawURLEncoding.Strict()

// sign returns the signature of a payload for Encode. It returns an empty string if the message type is not signed or
// the sender does not have a key.
func (s Sender) sign(messageType string, tree map[string]any, payload []byte) string {
	worker, _ := tree[signed[messageType]].(string)
	if len(s.Key) == 0 || worker == "" {
		return ""
	}
	return signatureText.EncodeToString(signature(s.Key, messageType, worker, payload))
}

// SignedBy reports whether the payload, as received, was signed with an attempt's key on behalf of its worker. It
// returns false for an empty key.
func (e Envelope) SignedBy(key []byte, worker string) bool {
	said, err := signatureText.DecodeString(e.Signature)
	return err == nil && len(key) > 0 && hmac.Equal(said, signature(key, e.Payload.MessageType(), worker, e.Raw))
}

func signature(key []byte, messageType, worker string, payload []byte) []byte {
	return mac(key, []byte("retake report/1\n"+messageType+"\n"+worker+"\n"), payload)
}

func mac(key []byte, texts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, text := range texts {
		h.Write(text)
	}
	return h.Sum(nil)
}

// AttemptKey derives the key of an attempt from a fleet's secret. It returns nil for an empty secret, because anyone
// could derive that key. Encode does not sign with an empty key.
func AttemptKey(secret []byte, worker string) []byte {
	if len(secret) == 0 {
		return nil
	}
	return mac(secret, []byte("retake attempt/"+worker))
}

// CheckSignature checks the signature of a decoded report or checkpoint with its attempt's key. It accepts an unsigned
// message only from a person, that is, a worker_error that is bare or has the role operator.
func CheckSignature(e Envelope, key []byte, worker string) (signed bool, err error) {
	_, isError := e.Payload.(*WorkerError)
	switch {
	case e.SignedBy(key, worker):
		return true, nil
	case e.Signature != "":
		return false, malformed(CauseUnsigned, "signature: does not match %s and this payload", worker)
	case isError && (e.Bare || e.Sender.Role == RoleOperator):
		return false, nil
	default:
		return false, malformed(CauseUnsigned, "missing signature: a sender with role %s must sign a %s",
			e.Sender.Role, e.Payload.MessageType())
	}
}

// ReportMessageID returns a report's message id, which the server uses to recognize duplicates. It depends on the
// attempt's key as well as on the error_id or result_id. Without the key, another client could first send a message
// with the same id, and the server would drop the report as a duplicate.
func ReportMessageID(key []byte, worker, id string) string {
	return worker + "/" + signatureText.EncodeToString(mac(key, []byte("id/"+id))[:messageIDBytes])
}
