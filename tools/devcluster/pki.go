package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// authority signs for one cluster, and is trusted by it and its clients alone.
type authority struct {
	folder      folder
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// text is the certificate in PEM.
	text []byte
}

// newAuthority writes ca.crt and ca.key.
func newAuthority(folder folder) (*authority, error) {
	a := &authority{folder: folder}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "devcluster"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	certificate, key, err := a.sign(template)
	if err != nil {
		return nil, err
	}
	a.text = certificate
	return a, writeFiles(folder, map[string][]byte{"ca.crt": certificate, "ca.key": key})
}

// serve writes the certificate of the API server, for every name by which it is asked.
func (a *authority) serve() error {
	certificate, key, err := a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	return writeFiles(a.folder, map[string][]byte{"apiserver.crt": certificate, "apiserver.key": key})
}

// kubeconfig writes a file with which a client is this user.
func (a *authority) kubeconfig(file, server, user string, groups ...string) error {
	certificate, key, err := a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	const name = "devcluster"
	return clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{name: {Server: server, CertificateAuthorityData: a.text}},
		AuthInfos:      map[string]*api.AuthInfo{user: {ClientCertificateData: certificate, ClientKeyData: key}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: user}},
		CurrentContext: name,
	}, a.folder.path(file))
}

// sign makes a key and its certificate, both in PEM. The first one is the authority's own.
func (a *authority) sign(template *x509.Certificate) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, nil, err
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	if a.certificate == nil {
		a.certificate, a.key = template, private
	}
	bytes, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = keyText(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: bytes}), key, err
}

// accountKey writes the key that signs the tokens of service accounts.
func accountKey(folder folder) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	key, err := keyText(private)
	if err != nil {
		return err
	}
	return writeFiles(folder, map[string][]byte{"accounts.key": key})
}

func keyText(key *ecdsa.PrivateKey) ([]byte, error) {
	bytes, err := x509.MarshalECPrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: bytes}), err
}

func writeFiles(folder folder, files map[string][]byte) error {
	for name, text := range files {
		if err := os.WriteFile(folder.path(name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
