package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	storage "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
)

const (
	// provisioner is named by the storage class, and by Kubernetes on each claim for which it waits for us.
	provisioner = "sim.longshore.dev/volume"
	waitsFor    = "volume.kubernetes.io/storage-provisioner"
	madeBy      = "pv.kubernetes.io/provisioned-by"
)

// volumes makes a volume for each claim of our storage classes and removes those that are released. Nothing is ever
// stored on them.
func volumes() {
	if err := provision(); err != nil {
		fmt.Fprintln(os.Stderr, "volumes:", err)
		os.Exit(1)
	}
}

type volumeMaker struct {
	client   kubernetes.Interface
	classes  storage.StorageClassLister
	recorder record.EventRecorder
}

func provision() error {
	flags := flag.NewFlagSet("volumes", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "of an administrator")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	events := record.NewBroadcaster()
	defer events.Shutdown()
	events.StartRecordingToSink(&typed.EventSinkImpl{Interface: client.CoreV1().Events("")})

	// Everything comes by again after a while: what failed is tried again then.
	factory := informers.NewSharedInformerFactory(client, 5*time.Second)
	maker := &volumeMaker{
		client:   client,
		classes:  factory.Storage().V1().StorageClasses().Lister(),
		recorder: events.NewRecorder(scheme.Scheme, core.EventSource{Component: provisioner}),
	}
	classes := factory.Storage().V1().StorageClasses().Informer()
	watched := map[cache.SharedIndexInformer]func(context.Context, any) error{
		factory.Core().V1().PersistentVolumeClaims().Informer(): maker.claimChanged,
		factory.Core().V1().PersistentVolumes().Informer():      maker.volumeChanged,
	}
	for informer, changed := range watched {
		handle := func(object any) {
			if !cache.WaitForCacheSync(ctx.Done(), classes.HasSynced) {
				return
			}
			if err := changed(ctx, object); err != nil {
				fmt.Fprintln(os.Stderr, "volumes:", err)
			}
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    handle,
			UpdateFunc: func(_, object any) { handle(object) },
		}); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// claimChanged makes the volume that Kubernetes waits for.
func (m *volumeMaker) claimChanged(ctx context.Context, object any) error {
	claim := object.(*core.PersistentVolumeClaim)
	if claim.Spec.VolumeName != "" || claim.Annotations[waitsFor] != provisioner || claim.DeletionTimestamp != nil {
		return nil
	}
	class, err := m.classes.Get(*claim.Spec.StorageClassName)
	if err != nil {
		return err
	}
	name := "pvc-" + string(claim.UID)
	volume := &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{madeBy: provisioner}},
		Spec: core.PersistentVolumeSpec{
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      core.ResourceList{core.ResourceStorage: claim.Spec.Resources.Requests[core.ResourceStorage]},
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: *class.ReclaimPolicy,
			MountOptions:                  class.MountOptions,
			ClaimRef: &core.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeSource: core.PersistentVolumeSource{
				HostPath: &core.HostPathVolumeSource{Path: "/var/lib/volumes/" + name},
			},
		},
	}
	_, err = m.client.CoreV1().PersistentVolumes().Create(ctx, volume, meta.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err == nil {
		m.recorder.Eventf(claim, core.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", name)
	}
	return err
}

// volumeChanged removes a volume of ours whose claim is gone.
func (m *volumeMaker) volumeChanged(ctx context.Context, object any) error {
	volume := object.(*core.PersistentVolume)
	released := volume.Status.Phase == core.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == core.PersistentVolumeReclaimDelete
	if !released || volume.Annotations[madeBy] != provisioner || volume.DeletionTimestamp != nil {
		return nil
	}
	err := m.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, meta.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
